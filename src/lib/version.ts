import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Version of the running program: in logs, `--version`, Via and Server headers. */
export interface Version {
  /** as in package.json: `0.1.0` */
  readonly version: string
  /** `unknown` unless the package names the commit that it was made from */
  readonly commit: string
}

/** Reads the nearest package.json above this file, which works from `src` and from the published package. */
export function readVersion(): Version {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (!existsSync(file)) continue
    const { version, gitHead } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string; gitHead?: string }
    if (version !== undefined) return { version, commit: gitHead ?? 'unknown' }
  }
  return { version: '0.0.0', commit: 'unknown' }
}

/** Line that `--version` prints: `kas 0.1.0 (commit)`, or `kas 0.1.0` from a source tree. */
export function versionLine(program: 'kas' | 'agentk', { version, commit }: Version): string {
  return commit === 'unknown' ? `${program} ${version}` : `${program} ${version} (${commit})`
}

/**
 * `gitlab-kas/v0.1.0/unknown`, the form of upstream's Server and Via entries (doc/reference/tunnel-protocol.md 6.4).
 */
export function productName(program: 'gitlab-kas' | 'gitlab-agent', { version, commit }: Version): string {
  return `${program}/v${version}/${commit}`
}
