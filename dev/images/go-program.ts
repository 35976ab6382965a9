import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Component } from '../package/sbom.ts'
import { boundedRun } from './bounded-run.ts'
import type { Architecture } from './oci-layout.ts'

const run = promisify(execFile)
const maxOutputBytes = 16 * 1024 * 1024
/** limit for modules, which may not come, and for the compiler on a busy machine */
const installTimeoutMs = 1_200_000
/** the machine's toolchain, in place of one that a module names */
const ownToolchain = { GOTOOLCHAIN: 'local' }
const isText = /^(licen[cs]e|copying|notice|unlicense)/i
const rule = '='.repeat(80)

/** A Go module with a program. */
export interface GoModule {
  readonly name: string
  /** path of the package of its main function */
  readonly path: string
  readonly version: string
}

export interface GoProgram {
  readonly program: Buffer
  /** the standard library of its Go, and its modules */
  readonly components: readonly Component[]
  /** licences of the components, each text once */
  readonly notices: string
}

/**
 * Builds a program for a processor, with the same bytes each time with one Go, and reads its modules from it.
 *
 * @param cache - a permanent folder
 * @throws Error with go's message
 */
export async function goProgram(module: GoModule, architecture: Architecture, cache: string): Promise<GoProgram> {
  const file = await goProgramFile(module, architecture, cache)
  if (!existsSync(file)) await make(module, architecture, file)
  const [modules, said] = await Promise.all([go('env', 'GOMODCACHE'), go('version', '-m', file)])
  const [, compiler] = /: (?:devel )?go(\S+)/.exec(said) ?? []
  if (compiler === undefined) throw new Error(`${file} does not say which Go has made it: ${said}`)
  const found = [...said.matchAll(/^\t(?:mod|dep)\t(\S+)\t(\S+)/gm)].map(([, path = '', version = '']) => ({
    path,
    version,
    folder: join(modules, `${path.replace(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`)}@${version}`),
  }))
  const texts = Map.groupBy(found, ({ folder }) => licenceIn(folder))
  const parts = await Promise.all(
    [...texts].map(async ([files, some]) => {
      const names = some.map(({ path, version }) => `${path} ${version}\n`)
      return `${rule}\n${names.join('')}\n${(await Promise.all(files.split('\n').map((path) => readFile(path, 'utf8')))).join('\n')}`
    }),
  )
  return {
    program: await readFile(file),
    components: [{ path: 'stdlib', version: compiler }, ...found].map(({ path, version }) => ({
      type: 'library',
      name: path,
      version,
      purl: `pkg:golang/${path.toLowerCase()}@${encodeURIComponent(version)}`,
    })),
    notices: parts.join('\n'),
  }
}

/** Returns the path of its cached build, which takes minutes; each Go has its own, since standard libraries differ. */
export async function goProgramFile(
  { name, version }: GoModule,
  architecture: Architecture,
  cache: string,
): Promise<string> {
  return join(cache, 'go', await go('env', 'GOVERSION'), architecture, `${name}-${version}`)
}

async function go(...args: string[]): Promise<string> {
  const env = { ...process.env, ...ownToolchain }
  return (await run('go', args, { env, maxBuffer: maxOutputBytes })).stdout.trim()
}

/** @returns paths, a line each. @throws Error if there is none */
function licenceIn(folder: string): string {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => isText.test(name)) : []
  if (files.length === 0) throw new Error(`${folder} has no licence`)
  return files.map((name) => join(folder, name)).join('\n')
}

async function make({ name, path, version }: GoModule, architecture: Architecture, file: string): Promise<void> {
  const [host, modules] = await Promise.all([go('env', 'GOHOSTARCH'), go('env', 'GOMODCACHE')])
  const folder = `${file}.${process.pid}`
  await mkdir(folder, { recursive: true })
  try {
    const target = { CGO_ENABLED: '0', GOOS: 'linux', GOARCH: architecture, ...ownToolchain }
    const places = { GOPATH: folder, GOMODCACHE: modules, GOBIN: '' }
    const options = { env: { ...process.env, ...target, ...places }, timeoutMs: installTimeoutMs }
    await boundedRun('go', ['install', '-trimpath', '-ldflags=-s -w', `${path}@${version}`], options)
    await rename(join(folder, 'bin', host === architecture ? '' : `linux_${architecture}`, name), file)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
