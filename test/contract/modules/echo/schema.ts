import { z } from 'zod'

/** Schema of `echo` in the agent's file. kas checks the file with it, agentk reads the block with it. */
export const echoSchema = z.object(
  {
    word: z.string({ error: 'a text' }).exactOptional(),
    words: z.array(z.string({ error: 'a text' })).exactOptional(),
  },
  { error: 'a block of keys' },
)
