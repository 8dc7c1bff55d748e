/* The Hexagon DSP of this machine, for quern devices: an emulated one. */
#ifndef CLI_METER_DSP_DEVICES_H
#define CLI_METER_DSP_DEVICES_H

/* Through print(label, text), a line; or the reason why there is none. */
void dsp_devices_print(void (*print)(const char *label, const char *text));

/* As the list "hexagon" of the open JSON object; "hexagon_missing" is why it is empty. */
void dsp_devices_json(void);

#endif
