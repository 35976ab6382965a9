import { z } from 'zod'

/** `echo` of the agent's file: kas checks it with this, agentk reads with it. */
export const echoSchema = z.object(
  {
    word: z.string({ error: 'a text' }).exactOptional(),
    words: z.array(z.string({ error: 'a text' })).exactOptional(),
  },
  { error: 'a block of keys' },
)
