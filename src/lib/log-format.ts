/** `text` is for people; programs that read logs of pods take `json`. */
export const logFormats = ['json', 'text'] as const
export type LogFormat = (typeof logFormats)[number]

export function isLogFormat(text: string): text is LogFormat {
  return logFormats.some((one) => one === text)
}
