import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Layer } from '../images/layer.ts'
import { commandOf, programLayer } from '../images/program-layer.ts'
import { nodeEnvironment } from '../node-flags.ts'
import type { ProgramName } from '../package/bundle.ts'
import { stage } from '../package/package.ts'
import type { Programs } from '../start/local-programs.ts'

const project = resolve(import.meta.dirname, '../..')
const maxOutputBytes = 16 * 1024 * 1024
const runFile = promisify(execFile)

/** Environment of another user: without variables of the npm that runs this, and without commands of this project. */
export function foreignEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS$|INIT_CWD$)/i.test(name))
  const commands = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  return { ...(Object.fromEntries(kept) as Record<string, string>), PATH: commands.join(delimiter) }
}

/** Environment of another user whose `node` is the one that runs this. */
function ownNodeEnvironment(): Record<string, string> {
  const environment = foreignEnvironment()
  return { ...environment, PATH: [dirname(process.execPath), environment.PATH].join(delimiter) }
}

/**
 * Runs `npm run package`.
 *
 * @param folder - output folder of the package and its lists
 * @returns path of the package
 * @throws Error with the failure
 */
export async function packProject(folder: string): Promise<string> {
  const program = join(project, 'dev/package/package.ts')
  const { stdout } = await runFile(process.execPath, [program, folder], { env: ownNodeEnvironment() })
  return stdout.trim()
}

/** Flags with which npm uses no registry: otherwise it would wait for one even for omitted packages. */
export const withoutRegistry = ['--offline', '--omit=optional']

/**
 * Installs the package with an empty cache, as README says.
 *
 * @param prefix - replaces npm's own
 * @param environment - variables of npm, beside this process' own
 * @returns the folder of the package, and its programs as their first lines start them
 * @throws Error with npm's output
 */
export async function installPackage(
  tarball: string,
  prefix: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<{ home: string; programs: Programs }> {
  await mkdir(prefix)
  const places = { npm_config_prefix: prefix, npm_config_cache: join(prefix, 'cache') }
  const own = ownNodeEnvironment()
  const env = { ...own, ...places, ...environment }
  const args = ['install', '--global', ...withoutRegistry, '--loglevel=error', tarball]
  await runFile('npm', args, { cwd: prefix, env, maxBuffer: maxOutputBytes })
  const commands = (name: ProgramName) => [join(prefix, 'bin', name)]
  return {
    home: join(prefix, 'lib/node_modules/kas'),
    programs: { kas: commands('kas'), agentk: commands('agentk'), environment: { PATH: own.PATH ?? '' } },
  }
}

/**
 * Puts the programs into a folder as the images contain them, and returns them with the images' flags, under the Node
 * that runs this.
 *
 * @param folder - replaces an image's root
 */
export async function installAsImages(folder: string): Promise<Programs> {
  const staged = await mkdtemp(join(folder, 'staged-')) // an interrupt leaves it to the owner of `folder`
  try {
    await stage(staged)
    for (const program of ['kas', 'agentk'] as const) await unpack(await programLayer(program, staged), folder)
  } finally {
    await rm(staged, { recursive: true, force: true })
  }
  const command = (program: ProgramName) => {
    const [, ...words] = commandOf(program)
    return [process.execPath, ...words.map((word) => (word.startsWith('/') ? join(folder, word) : word))]
  }
  return { kas: command('kas'), agentk: command('agentk'), environment: nodeEnvironment }
}

async function unpack(layer: Layer, folder: string): Promise<void> {
  for (const [path, entry] of layer.entries) {
    const file = join(folder, path)
    await mkdir(entry.kind === 'folder' ? file : dirname(file), { recursive: true })
    if (entry.kind === 'file') await writeFile(file, entry.content, { mode: entry.mode })
    else if (entry.kind === 'link') await symlink(entry.target, file)
  }
}
