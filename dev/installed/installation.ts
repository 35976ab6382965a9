import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Programs } from '../start/local-programs.ts'
import { type ContainerFile, type ProgramName, readContainerFile } from './container-file.ts'

const project = resolve(import.meta.dirname, '../..')
const containerFile = join(project, 'deploy/Containerfile')
/** npm's own prefix for what is installed globally, in the image */
const imagePrefix = '/usr/local'
const maxOutputBytes = 16 * 1024 * 1024
const runFile = promisify(execFile)

/** A package that was installed, and how its programs are started. */
export interface Installation {
  /** the folder of the package */
  readonly home: string
  readonly programs: Programs
}

/** The environment of a stranger: nothing of the npm that runs this, and no command of this project. */
export function foreignEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS$|INIT_CWD$)/i.test(name))
  const commands = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  return { ...(Object.fromEntries(kept) as Record<string, string>), PATH: commands.join(delimiter) }
}

/** That of a stranger whose `node` is the one that runs this. */
function ownNodeEnvironment(): Record<string, string> {
  const environment = foreignEnvironment()
  return { ...environment, PATH: [dirname(process.execPath), environment.PATH].join(delimiter) }
}

/**
 * `npm pack` in the project's folder.
 *
 * @param folder - where the package is put, alone
 * @returns its path
 * @throws Error with npm's output
 */
export async function packProject(folder: string, signal?: AbortSignal): Promise<string> {
  const args = ['pack', '--loglevel=error', '--pack-destination', folder]
  const options = { cwd: project, env: ownNodeEnvironment(), maxBuffer: maxOutputBytes, ...(signal ? { signal } : {}) }
  const { stdout } = await runFile('npm', args, options)
  return join(folder, stdout.trim().split('\n').at(-1) ?? '')
}

/**
 * Installs the package by the RUN line of deploy/Containerfile, below `prefix` in the place of the image's `/usr/local`,
 * and offline with an empty cache: the package brings all that it needs. Its programs are those of the ENTRYPOINT
 * lines, under the Node that runs this.
 *
 * @param packed - holds the package and nothing else
 * @throws Error with npm's output
 */
export async function installAsImage(packed: string, prefix: string, signal?: AbortSignal): Promise<Installation> {
  const file = readContainerFile(containerFile)
  await mkdir(prefix)
  const npm = { prefix, cache: join(prefix, 'cache'), offline: 'true', loglevel: 'error' }
  const settings = Object.entries(npm).map(([name, value]) => [`npm_config_${name}`, value])
  const env = { ...ownNodeEnvironment(), ...Object.fromEntries(settings) }
  const line = file.install.replaceAll(`${file.context}/`, `${packed}/`)
  await runFile('sh', ['-ec', line], { cwd: prefix, env, maxBuffer: maxOutputBytes, ...(signal ? { signal } : {}) })
  return {
    home: join(prefix, 'lib/node_modules/kas'),
    programs: { kas: commandOf(file, 'kas', prefix), agentk: commandOf(file, 'agentk', prefix) },
  }
}

/** What the ENTRYPOINT has tini start. */
function commandOf({ entrypoints }: ContainerFile, name: ProgramName, prefix: string): readonly string[] {
  const [tini, dashes, node, ...args] = entrypoints[name]
  if (tini !== 'tini' || dashes !== '--' || node !== 'node') {
    throw new Error(`${containerFile}: the ENTRYPOINT of ${name} does not begin with tini -- node`)
  }
  return [process.execPath, ...args.map((word) => word.replace(new RegExp(`^${imagePrefix}/`), `${prefix}/`))]
}
