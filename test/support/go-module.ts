import { execFileSync } from 'node:child_process'
import { absent } from './absent.ts'

/** A published Go module, at one version. */
export interface GoModule {
  readonly path: string
  /** version as `v1.6.3` */
  readonly version: string
  /** hash of its files as in go.sum: `h1:…` */
  readonly sum: string
}

export type FoundGoModule = { readonly folder: string } | { readonly lacks: string }

/** limit for the module proxy, which sends some ten MB */
const timeoutMs = 120_000

/**
 * Returns the folder of its files in Go's module cache, after a download if needed; or the name of what the machine
 * lacks.
 *
 * @throws Error if its files do not match the sum
 */
export function goModule({ path, version, sum }: GoModule): FoundGoModule {
  const name = `${path}@${version}`
  if (absent('go')) return { lacks: `needs go, for the module ${name}` }
  let found: { readonly Dir: string; readonly Sum: string }
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const
    found = JSON.parse(
      execFileSync('go', ['mod', 'download', '-json', name], {
        cwd: '/',
        encoding: 'utf8',
        timeout: timeoutMs,
        stdio: [...stdio],
      }),
    )
  } catch (error) {
    const said = String((error as { stdout?: string }).stdout ?? error)
    return { lacks: `needs the Go module ${name}: ${/"Error": "([^"\\]*)/.exec(said)?.[1] ?? said.split('\n')[0]}` }
  }
  if (found.Sum !== sum) throw new Error(`${name} has the sum ${found.Sum}, not ${sum}`)
  return { folder: found.Dir }
}
