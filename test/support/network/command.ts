import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** Runs a program to its end. @returns its output. @throws Error with its messages if it fails */
export async function command(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await execute(program, args)
  return stdout
}
