import { type ErrorSpec, KasError } from '../../lib/errors.ts'
import { type AgentConfigurationFile, type GitopsFile, parseAgentConfiguration } from './agent-config-file.ts'
import { parseViewsFile } from './views-file.ts'

export interface ParsingJob {
  /** names it in errors */
  readonly file: string
  readonly bytes: Uint8Array
  /** keys of the blocks that modules own; undefined: it is no configuration, but what views are to show */
  readonly blockKeys: readonly string[] | undefined
  /** beside a configuration */
  readonly gitops?: GitopsFile | undefined
}

/** What can be passed from thread to thread; `costMs`: CPU time. */
export type ParsingAnswer = { readonly costMs: number } & (
  | { readonly configuration: AgentConfigurationFile }
  /** JSON */
  | { readonly views: string }
  | { readonly refusal: ErrorSpec }
)

/** As `parseAgentConfiguration`, or `parseViewsFile`, with what it cost this thread; an error that has no code is thrown. */
export function parsingAnswer({ file, bytes, blockKeys, gitops }: ParsingJob): ParsingAnswer {
  const before = process.threadCpuUsage()
  const costMs = () => {
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  }
  try {
    if (!blockKeys) return { views: parseViewsFile(file, bytes), costMs: costMs() }
    return { configuration: parseAgentConfiguration(file, bytes, blockKeys, gitops), costMs: costMs() }
  } catch (error) {
    if (error instanceof KasError) return { refusal: error.spec, costMs: costMs() }
    throw error
  }
}
