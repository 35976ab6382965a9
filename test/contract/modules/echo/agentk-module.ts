import type { AgentkHost, AgentkModule } from '../../../../src/agentk/module.ts'
import { echoSchema } from './schema.ts'

export interface Heard {
  readonly word: (word: string | undefined) => void
  /** called when kas has the module too */
  readonly feature: () => void
}

/** The agent's part. It reports the word of its block in the agent's file, and whether kas has the module. */
export function createEcho({ configuration, kas }: AgentkHost, heard: Heard): AgentkModule {
  const never = new AbortController().signal
  kas.onFeature(async () => {
    if (kas.hasFeature(await kas.session(never), 'echo')) heard.feature()
  })
  const word = configuration.block('echo', (json) => echoSchema.parse(json).word)
  configuration.onChange(() => heard.word(word()))
  return {}
}
