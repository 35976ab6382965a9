import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Makes a folder for PATH with this script as the program. */
export async function scripted(t: Test, name: string, script: string): Promise<string> {
  const folder = t.testdir({ [name]: `#!/bin/sh\n${script}\n` })
  await chmod(join(folder, name), 0o755)
  return folder
}
