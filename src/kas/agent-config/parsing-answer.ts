import { type ErrorSpec, KasError } from '../../lib/errors.ts'
import { type AgentConfigurationFile, parseAgentConfiguration } from './agent-config-file.ts'

export interface ParsingJob {
  /** names it in errors */
  readonly file: string
  readonly bytes: Uint8Array
  /** keys of the blocks that modules own */
  readonly blockKeys: readonly string[]
}

/** What can be passed from thread to thread; `costMs`: CPU time. */
export type ParsingAnswer = { readonly costMs: number } & (
  | { readonly configuration: AgentConfigurationFile }
  | { readonly refusal: ErrorSpec }
)

/** As `parseAgentConfiguration`, with what it cost this thread; an error that has no code is thrown. */
export function parsingAnswer({ file, bytes, blockKeys }: ParsingJob): ParsingAnswer {
  const before = process.threadCpuUsage()
  const costMs = () => {
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  }
  try {
    return { configuration: parseAgentConfiguration(file, bytes, blockKeys), costMs: costMs() }
  } catch (error) {
    if (error instanceof KasError) return { refusal: error.spec, costMs: costMs() }
    throw error
  }
}
