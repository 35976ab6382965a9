import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Architecture } from './oci-layout.ts'

/** limit of apt, whose lists are some 50 MB */
const timeoutMs = 300_000
/** limit for earlier processes: lists, and their downloads */
const lockTimeoutMs = 2 * timeoutMs
const sources = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']

/** apt's message where Debian's packages cannot be had. */
export class AptError extends Error {
  override readonly name = 'AptError'
}

/**
 * apt with lists and packages of its own in a folder, for any processor. Only one process of this machine has the
 * folder at a time.
 */
export class Apt {
  readonly #folder: string
  readonly #options: readonly string[]

  /** @throws AptError where there is no Debian */
  constructor(folder: string, architecture: Architecture) {
    const [list] = sources.filter(existsSync)
    if (list === undefined) throw new AptError(`no Debian: neither ${sources.join(' nor ')} is there`)
    this.#folder = folder
    const settings = {
      'APT::Architecture': architecture,
      'APT::Architectures::': architecture,
      'APT::Install-Recommends': 'false',
      'APT::Sandbox::User': 'root',
      'APT::Update::Error-Mode': 'any',
      'Acquire::Languages': 'none',
      // a mirror that does not answer is reported within a test's time
      'Acquire::Retries': '1',
      'Acquire::http::Timeout': '20',
      'Acquire::https::Timeout': '20',
      'Dir::State': folder,
      'Dir::State::lists': join(folder, 'lists'),
      'Dir::State::status': join(folder, 'status'),
      'Dir::Cache': folder,
      'Dir::Cache::pkgcache': 'pkgcache.bin', // Debian's container image turns it off; without it lists take a second
      'Dir::Cache::archives': join(folder, 'archives'),
      'Dir::Etc::SourceList': list,
      'Dir::Etc::SourceParts': '/dev/null',
      'Binary::apt-get::APT::Keep-Downloaded-Packages': 'true',
      'Debug::NoLocking': 'true', // the folder's own lock covers all steps together
    }
    this.#options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  }

  /**
   * Runs `work` while no other process has the folder. A failure of apt also fails processes that wait for the same
   * packages, since they would only wait for it once more.
   *
   * @param names - requested packages
   */
  async alone<T>(names: readonly string[], work: (apt: RunApt) => Promise<T>): Promise<T> {
    const askedMs = Date.now()
    for (const folder of ['archives/partial', 'lists/partial'])
      await mkdir(join(this.#folder, folder), { recursive: true })
    const lock = await open(join(this.#folder, 'lock'), 'a')
    try {
      await this.#lock(lock.fd)
      const failures = { update: 'failed-update', install: `failed-${hash('sha256', names.join()).slice(0, 12)}` }
      for (const name of Object.values(failures)) await this.#throwSince(name, askedMs)
      return await work((verb, ...words) => this.#run([verb, ...words], lock.fd, failures[verb]))
    } finally {
      await lock.close()
    }
  }

  /** Locks the open file: the lock ends with the last process that has it, killed or not. */
  async #lock(fd: number): Promise<void> {
    const { code, signal, stderr } = await ended('flock', ['3'], fd, lockTimeoutMs)
    if (code === 0) return
    const why = signal === null ? stderr.trim() : `another process has it for over ${lockTimeoutMs / 1000} s`
    throw new Error(`${this.#folder} is not locked: ${why}`)
  }

  async #throwSince(name: string, askedMs: number): Promise<void> {
    const file = join(this.#folder, name)
    if (!existsSync(file)) return
    const { atMs, message } = JSON.parse(await readFile(file, 'utf8')) as Failure
    if (atMs >= askedMs) throw new AptError(message)
  }

  async #run(words: readonly string[], lock: number, failure: string): Promise<string> {
    const status = join(this.#folder, 'status')
    if (!existsSync(status)) await writeFile(status, '') // a new date would make apt read all lists again
    const { code, signal, stdout, stderr } = await ended(
      'apt-get',
      [...this.#options, '--quiet', ...words],
      lock,
      timeoutMs,
    )
    const file = join(this.#folder, failure)
    if (code === 0) {
      await rm(file, { force: true })
      return stdout
    }
    const why = signal === null ? stderr.trim() : `took over ${timeoutMs / 1000} s`
    const message = `apt-get ${words.join(' ')}: ${why}`
    await writeFile(file, JSON.stringify({ atMs: Date.now(), message } satisfies Failure))
    throw new AptError(message)
  }
}

/** @returns its output. @throws AptError */
export type RunApt = (verb: 'install' | 'update', ...words: string[]) => Promise<string>

interface Failure {
  readonly atMs: number
  readonly message: string
}

/** @param lock - becomes its descriptor 3, so that processes that are left behind keep the lock */
async function ended(program: string, args: readonly string[], lock: number, timeout: number) {
  const env = { ...process.env, LC_ALL: 'C' } // its output is parsed
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe', lock], timeout, env })
  const [, out, err] = child.stdio as unknown as [null, Readable, Readable]
  const [[code, signal], stdout, stderr] = await Promise.all([
    once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
    text(out),
    text(err),
  ])
  return { code, signal, stdout, stderr }
}
