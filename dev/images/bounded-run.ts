import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const maxOutputBytes = 16 * 1024 * 1024

export interface BoundedRunOptions {
  /** limit after which it is ended */
  readonly timeoutMs: number
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
}

/**
 * Runs a program that downloads, with a limit, since no answer may come.
 *
 * @returns its output
 * @throws Error with its message, or that it took too long
 */
export async function boundedRun(
  program: string,
  args: readonly string[],
  { timeoutMs, ...rest }: BoundedRunOptions,
): Promise<string> {
  try {
    return (await run(program, args, { ...rest, timeout: timeoutMs, maxBuffer: maxOutputBytes })).stdout
  } catch (error) {
    const { killed = false, code, stderr = '' } = error as { killed?: boolean; code?: unknown; stderr?: string }
    if (!killed || code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') throw error
    const words = [program, ...args].join(' ')
    const message = `${words} took over ${timeoutMs / 1000} s: where it fetches from may not answer. ${stderr}`
    throw new Error(message.trim(), { cause: error })
  }
}
