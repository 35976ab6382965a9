import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** Runs a program to its end; gives what it wrote. @throws Error that holds what it said if it fails */
export async function command(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await execute(program, args)
  return stdout
}
