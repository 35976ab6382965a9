import * as z from 'zod'

/** A row as clients of before causes read it: a key that they do not know is left out, a longer tuple ends the view. */
const name = z.string().max(1024)
const id = z.string().max(4096)
const text = z.string().max(8192)
const word = z.enum(['', 'Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown'])
const kstatus = z.enum(['Current', 'InProgress', 'Terminating', 'Failed', 'Unknown'])

export const olderRow = z.object({
  u: id,
  k: name,
  ns: name.optional(),
  n: name,
  p: id.optional(),
  t: z.number().optional(),
  h: z.tuple([word, kstatus]).optional(),
  why: z.tuple([text, text]).optional(),
  f: z.array(name).max(16).optional(),
  c: z.int().min(0).optional(),
  w: word.optional(),
  l: z
    .array(z.tuple([name, id]))
    .max(100)
    .optional(),
})
