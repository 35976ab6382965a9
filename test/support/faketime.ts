import { globSync } from 'node:fs'
import { join } from 'node:path'
import { AptError } from '../../dev/images/apt.ts'
import { debianPackages } from '../../dev/images/debian.ts'
import { userCache } from '../../dev/images/images.ts'
import { absent } from './absent.ts'

const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'

/** Environment of a program with a shifted clock; a text names what the machine lacks for it. */
export async function shiftedClock(seconds: number): Promise<Record<string, string> | string> {
  if (process.platform !== 'linux') return 'needs Linux'
  if (absent('apt-get') || absent('dpkg-deb')) return 'needs apt-get and dpkg-deb'
  let folders: string[]
  try {
    folders = (await debianPackages(['libfaketime'], architecture, userCache())).map(({ folder }) => folder)
  } catch (error) {
    if (!(error instanceof AptError)) throw error
    return `needs Debian's libfaketime: ${error.message.split('\n')[0]}`
  }
  const [library] = globSync(folders.map((folder) => join(folder, 'usr/lib/*/faketime/libfaketimeMT.so.1')))
  if (library === undefined) throw new Error("Debian's libfaketime is not what it was")
  const sign = seconds < 0 ? '' : '+'
  return { LD_PRELOAD: library, FAKETIME: `${sign}${seconds}s`, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
}
