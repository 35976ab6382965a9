import { parentPort } from 'node:worker_threads'
import { type ErrorSpec, KasError } from '../../lib/errors.ts'
import { type AgentConfigurationFile, parseAgentConfiguration } from './agent-config-file.ts'
import { type FileBeside, parseModuleFile } from './module-blocks.ts'
import type { ModuleSchema } from './module-schema.ts'

export interface ParsingJob {
  /** name for errors */
  readonly file: string
  readonly bytes: Uint8Array
  /** name of a module's own file; absent: it is a configuration */
  readonly moduleFile?: string
  /** files beside a configuration */
  readonly beside?: readonly FileBeside[]
}

/** Answer that can be sent from thread to thread; `costMs`: CPU time. */
export type ParsingAnswer = { readonly costMs: number } & (
  | { readonly configuration: AgentConfigurationFile }
  | { readonly json: string }
  | { readonly refusal: ErrorSpec }
)

/**
 * Parses a job as `parseAgentConfiguration` or `parseModuleFile` do, and measures the CPU time of this thread. An error
 * without a code is thrown.
 */
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

/** Runs the program of `ParsingThread`. An error without a code ends the thread, and so reaches its owner. */
export function answerJobs(schemas: readonly ModuleSchema[]): void {
  parentPort?.on('message', (job: ParsingJob) => parentPort?.postMessage(parsingAnswer(job, schemas)))
}
