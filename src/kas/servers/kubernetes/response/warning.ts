/** Makes a value of the header `Warning` as Kubernetes' own: `299` is "miscellaneous, persistent". */
export function warning(text: string): string {
  return `299 - "GitLab Agent Server: ${text}"`
}
