import { existsSync, globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { AptError } from '../../../dev/images/apt.ts'
import { debianPackages } from '../../../dev/images/debian.ts'
import { userCache } from '../../../dev/images/images.ts'
import { absent } from '../../support/absent.ts'
import { architecture, type Runc } from './unpacked-image.ts'

/** Names the program or right that the machine lacks to make and run images; undefined: nothing is lacking. */
export async function lacking(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux'
  if (absent('apt-get') || absent('dpkg-deb')) return 'needs apt-get and dpkg-deb'
  try {
    await unpackedRunc()
    return undefined
  } catch (error) {
    if (!(error instanceof AptError)) throw error
    return `needs Debian's packages: ${error.message.split('\n')[0]}`
  }
}

/** Debian's runc, unpacked but not installed. */
export async function unpackedRunc(): Promise<Runc> {
  const packages = await debianPackages(['runc'], architecture, userCache())
  const places = packages.map(({ folder }) => folder)
  const program = places.map((folder) => join(folder, 'usr/sbin/runc')).find(existsSync)
  const [seccomp] = globSync(places.map((folder) => join(folder, 'usr/lib/*/libseccomp.so.2')))
  if (program === undefined || seccomp === undefined) throw new Error("Debian's runc is not what it was")
  return { program, libraries: dirname(seccomp) }
}
