import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AptError } from '../../../dev/images/apt.ts'
import { debianPackages } from '../../../dev/images/debian.ts'
import { userCache } from '../../../dev/images/images.ts'
import { absent } from '../absent.ts'

export type Promtool = { readonly program: string } | { readonly lacks: string }

/**
 * Returns the promtool on the PATH, else Debian's, which is only unpacked; or the name of what the machine lacks for
 * both.
 */
export async function promtool(): Promise<Promtool> {
  if (!absent('promtool')) return { program: 'promtool' }
  if (process.platform !== 'linux' || absent('apt-get') || absent('dpkg-deb'))
    return { lacks: 'needs promtool on the PATH, or apt-get and dpkg-deb' }
  try {
    const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
    const packages = await debianPackages(['prometheus'], architecture, userCache())
    const program = packages.map(({ folder }) => join(folder, 'usr/bin/promtool')).find(existsSync)
    if (program === undefined) throw new Error("Debian's prometheus is not what it was")
    return { program }
  } catch (error) {
    if (!(error instanceof AptError)) throw error
    return { lacks: `needs promtool on the PATH, or Debian's: ${error.message.split('\n')[0]}` }
  }
}
