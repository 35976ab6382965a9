/** `text` is for people, `json` for programs that read the logs of pods. */
export const logFormats = ['json', 'text'] as const
export type LogFormat = (typeof logFormats)[number]

export function isLogFormat(text: string): text is LogFormat {
  return logFormats.some((one) => one === text)
}
