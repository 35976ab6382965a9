import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Component } from '../package/sbom.ts'
import type { Architecture } from './oci-layout.ts'

const run = promisify(execFile)
const maxOutputBytes = 16 * 1024 * 1024
const isText = /^(licen[cs]e|copying|notice|unlicense)/i
const rule = '='.repeat(80)

/** A program that is made from Go modules. */
export interface GoModule {
  readonly name: string
  /** the package of its main function */
  readonly path: string
  readonly version: string
}

export interface GoProgram {
  readonly program: Buffer
  /** the modules in it */
  readonly components: readonly Component[]
  /** their licences, each text once */
  readonly notices: string
}

/**
 * Makes a program for a processor, the same bytes each time with one Go, and asks it what it is made of.
 *
 * @param cache - a folder that is kept
 * @throws Error with the words of go
 */
export async function goProgram(module: GoModule, architecture: Architecture, cache: string): Promise<GoProgram> {
  const file = goProgramFile(module, architecture, cache)
  if (!existsSync(file)) await make(module, architecture, file)
  const go = async (...args: string[]) => (await run('go', args, { maxBuffer: maxOutputBytes })).stdout.trim()
  const [modules, said] = await Promise.all([go('env', 'GOMODCACHE'), go('version', '-m', file)])
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
    components: found.map(({ path, version }) => ({
      type: 'library',
      name: path,
      version,
      purl: `pkg:golang/${path.toLowerCase()}@${encodeURIComponent(version)}`,
    })),
    notices: parts.join('\n'),
  }
}

/** Where it is kept once it was made, which takes minutes. */
export const goProgramFile = ({ name, version }: GoModule, architecture: Architecture, cache: string): string =>
  join(cache, 'go', architecture, `${name}-${version}`)

/** @returns paths, a line each. @throws Error if there is none */
function licenceIn(folder: string): string {
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => isText.test(name)) : []
  if (files.length === 0) throw new Error(`${folder} has no licence`)
  return files.map((name) => join(folder, name)).join('\n')
}

async function make({ name, path, version }: GoModule, architecture: Architecture, file: string): Promise<void> {
  const asked = async (key: string) => (await run('go', ['env', key])).stdout.trim()
  const [host, modules] = await Promise.all([asked('GOHOSTARCH'), asked('GOMODCACHE')])
  const folder = `${file}.${process.pid}`
  await mkdir(folder, { recursive: true })
  try {
    const target = { CGO_ENABLED: '0', GOOS: 'linux', GOARCH: architecture, GOTOOLCHAIN: 'local' }
    const places = { GOPATH: folder, GOMODCACHE: modules, GOBIN: '' }
    const options = { env: { ...process.env, ...target, ...places }, maxBuffer: maxOutputBytes }
    await run('go', ['install', '-trimpath', '-ldflags=-s -w', `${path}@${version}`], options)
    await rename(join(folder, 'bin', host === architecture ? '' : `linux_${architecture}`, name), file)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
