import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { AptError } from '../../dev/images/apt.ts'
import { debianPackages } from '../../dev/images/debian.ts'
import { userCache } from '../../dev/images/images.ts'
import { absent } from './absent.ts'

/** kubectl of Debian 12, which knows SPDY alone. */
export const olderVersion = '1.20'

const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'

export type OlderKubectl = { readonly folder: string } | { readonly lacks: string }

/** Passes the kubectl that was found to the test that runs without a network. */
const variable = 'OLDER_KUBECTL'
export const passOlderKubectl = (found: OlderKubectl) => ({ [variable]: JSON.stringify(found) })

/**
 * Returns the folder of Debian's kubectl, unpacked and not installed, or a text that names what the machine lacks for
 * it.
 */
export async function olderKubectl(): Promise<OlderKubectl> {
  const passed = process.env[variable]
  if (passed !== undefined) return JSON.parse(passed)
  if (process.platform !== 'linux' || absent('apt-get') || absent('dpkg-deb'))
    return { lacks: `needs kubectl ${olderVersion}: apt-get and dpkg-deb` }
  try {
    const packages = await debianPackages(['kubernetes-client'], architecture, userCache())
    const programs = packages.map(({ folder }) => join(folder, 'usr/bin/kubectl'))
    const isOlder = packages.some(({ version }) => version.startsWith(`${olderVersion}.`))
    const program = isOlder ? programs.find(existsSync) : undefined
    return program ? { folder: dirname(program) } : { lacks: `needs kubectl ${olderVersion}: this Debian has another` }
  } catch (error) {
    if (!(error instanceof AptError)) throw error
    return { lacks: `needs Debian's kubernetes-client: ${error.message.split('\n')[0]}` }
  }
}
