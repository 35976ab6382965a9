import { z } from 'zod'

/** A URL of one of `protocols`, such as `https`. */
export function urlSchema(...protocols: string[]) {
  const error = `a URL that begins with ${protocols.map((one) => `${one}://`).join(' or ')}`
  const isUrl = (value: string) => protocols.some((one) => value.startsWith(`${one}://`)) && URL.canParse(value)
  return z.string({ error }).refine(isUrl, { error })
}
