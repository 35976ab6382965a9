import { z } from 'zod'
import type { AgentkHost, AgentkModule } from '../../../../src/agentk/module.ts'

const block = z.object({ word: z.string() })

/** The agent's side: it hears the word of its own block of the agent's file. */
export function createEcho({ configuration }: AgentkHost, heard: (word: string | undefined) => void): AgentkModule {
  const word = configuration.block('echo', (json) => block.parse(json).word)
  configuration.onChange(() => heard(word()))
  return {}
}
