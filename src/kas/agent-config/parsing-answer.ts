import { parentPort } from 'node:worker_threads'
import { type ErrorSpec, KasError } from '../../lib/errors.ts'
import { type AgentConfigurationFile, parseAgentConfiguration } from './agent-config-file.ts'
import { type FileBeside, parseModuleFile } from './module-blocks.ts'
import type { ModuleSchema } from './module-schema.ts'

export interface ParsingJob {
  /** names it in errors */
  readonly file: string
  readonly bytes: Uint8Array
  /** of the module whose own file it is; absent: it is a configuration */
  readonly moduleFile?: string
  /** beside a configuration */
  readonly beside?: readonly FileBeside[]
}

/** What can be passed from thread to thread; `costMs`: CPU time. */
export type ParsingAnswer = { readonly costMs: number } & (
  | { readonly configuration: AgentConfigurationFile }
  | { readonly json: string }
  | { readonly refusal: ErrorSpec }
)

/** As `parseAgentConfiguration`, or `parseModuleFile`, with what it cost this thread; an error that has no code is thrown. */
export function parsingAnswer(
  { file, bytes, moduleFile, beside = [] }: ParsingJob,
  schemas: readonly ModuleSchema[],
): ParsingAnswer {
  const before = process.threadCpuUsage()
  const costMs = () => {
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  }
  try {
    if (moduleFile === undefined) {
      return { configuration: parseAgentConfiguration(file, bytes, schemas, beside), costMs: costMs() }
    }
    const own = schemas.find((one) => one.file?.name === moduleFile)?.file
    if (!own) throw new Error(`no module has a file ${moduleFile}`)
    return { json: parseModuleFile(own, file, bytes), costMs: costMs() }
  } catch (error) {
    if (error instanceof KasError) return { refusal: error.spec, costMs: costMs() }
    throw error
  }
}

/** The program of `ParsingThread`; an error that has no code ends the thread, and so reaches its owner. */
export function answerJobs(schemas: readonly ModuleSchema[]): void {
  parentPort?.on('message', (job: ParsingJob) => parentPort?.postMessage(parsingAnswer(job, schemas)))
}
