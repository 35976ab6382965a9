import { execFileSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AptError } from '../../../dev/images/apt.ts'
import { debianPackages } from '../../../dev/images/debian.ts'
import { userCache } from '../../../dev/images/images.ts'
import { absent } from '../absent.ts'

export type ShellName = 'bash' | 'zsh' | 'fish'

/** A shell that can be run. */
export interface Shell {
  readonly name: ShellName
  readonly program: string
  readonly env: NodeJS.ProcessEnv
}

/** Packages of each Debian, which come from the machine, as the loader does. */
const ofTheMachine = new Set(['libc6', 'gcc-12-base', 'libgcc-s1', 'libcrypt1'])

/**
 * Returns the shell on the PATH, else Debian's, unpacked into `folder`; or the name of what the machine lacks for both.
 *
 * @param folder - must exist as long as the shell runs
 */
export async function foundShell(name: ShellName, folder: string): Promise<Shell | { readonly lacks: string }> {
  if (!absent(name)) return { name, program: name, env: process.env }
  if (process.platform !== 'linux' || absent('apt-get') || absent('dpkg-deb'))
    return { lacks: `needs ${name} on the PATH, or apt-get and dpkg-deb` }
  try {
    const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
    const packages = await debianPackages([name], architecture, userCache())
    const root = join(folder, `${name}-root`)
    mkdirSync(root)
    for (const one of packages) {
      if (!ofTheMachine.has(one.name)) execFileSync('cp', ['--recursive', '--no-dereference', `${one.folder}/.`, root])
    }
    const program = [join(root, 'usr/bin', name), join(root, 'bin', name)].find(existsSync)
    if (program === undefined) throw new Error(`Debian's ${name} is not what it was`)
    const libraries = globSync(['usr/lib/*-linux-gnu', 'lib/*-linux-gnu'], { cwd: root }).map((one) => join(root, one))
    return { name, program, env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':'), ...ownFolders(name, root) } }
  } catch (error) {
    if (!(error instanceof AptError)) throw error
    return { lacks: `needs ${name} on the PATH, or Debian's: ${error.message.split('\n')[0]}` }
  }
}

/** Folders of zsh's modules and functions, which by default it looks for at the paths of its build. */
function ownFolders(name: ShellName, root: string): NodeJS.ProcessEnv {
  if (name !== 'zsh') return {}
  const modules = globSync(['usr/lib/*/zsh/*', 'lib/*/zsh/*'], { cwd: root }).map((one) => join(root, one))
  const functions = globSync('usr/share/zsh/functions/**/', { cwd: root }).map((one) => join(root, one))
  writeFileSync(join(root, '.zshenv'), `module_path=(${modules.join(' ')})\nfpath=(${functions.join(' ')})\n`)
  return { ZDOTDIR: root }
}
