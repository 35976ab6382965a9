import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'

/** Returns the time from the start of a command to its end, in ms. @throws Error if it fails */
export async function commandMs(words: readonly string[], environment: Record<string, string> = {}): Promise<number> {
  const [command = '', ...args] = words
  const begun = performance.now()
  const child = spawn(command, args, { env: { ...process.env, ...environment }, stdio: 'ignore' })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}`)
  return performance.now() - begun
}

/** Returns the resident memory of a Node that runs nothing, in MiB. */
export async function nodeRssMiB(): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, ['-p', 'process.memoryUsage.rss()'])
  return Number(stdout) / 2 ** 20
}
