import type { AgentkHost, AgentkModule } from '../../../../src/agentk/module.ts'
import { echoSchema } from './schema.ts'

export interface Heard {
  readonly word: (word: string | undefined) => void
  /** kas has the module, too */
  readonly feature: () => void
}

/** The agent's side: it hears the word of its own block of the agent's file, and whether kas has the module. */
export function createEcho({ configuration, kas }: AgentkHost, heard: Heard): AgentkModule {
  const never = new AbortController().signal
  kas.onFeature(async () => {
    if (kas.hasFeature(await kas.session(never), 'echo')) heard.feature()
  })
  const word = configuration.block('echo', (json) => echoSchema.parse(json).word)
  configuration.onChange(() => heard.word(word()))
  return {}
}
