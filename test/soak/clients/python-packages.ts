import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { userCache } from '../../../dev/images/images.ts'
import { absent } from '../../support/absent.ts'

const version = '34.1.0'
const run = promisify(execFile)

export type PythonClient = { readonly folder: string } | { readonly lacks: string }

/** Passes the packages that were found to the program that runs without a network. */
const variable = 'PYTHON_CLIENT'
export const passPythonClient = (found: PythonClient) => ({ [variable]: JSON.stringify(found) })

/** Folder for PYTHONPATH with Python's `kubernetes`, or a text that names what the machine lacks for it. */
export async function pythonClient(): Promise<PythonClient> {
  const passed = process.env[variable]
  if (passed !== undefined) return JSON.parse(passed)
  if (absent('python3')) return { lacks: 'needs python3' }
  const folder = join(userCache(), `python-kubernetes-${version}`)
  if (existsSync(folder)) return { folder }
  const partial = `${folder}.${process.pid}`
  try {
    await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', partial, `kubernetes==${version}`])
    await rename(partial, folder)
    return { folder }
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    return { lacks: `needs pip and its index: ${(error as Error).message.split('\n')[0]}` }
  }
}
