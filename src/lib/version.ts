import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Which program runs: in logs, `--version`, Via and Server headers. */
export interface Version {
  /** as in package.json: `0.1.0` */
  readonly version: string
  /** `unknown` unless the package says from which commit it was made */
  readonly commit: string
}

/** Reads the package.json nearest above this file, so that it works from `src` and from the published package alike. */
export function readVersion(): Version {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (!existsSync(file)) continue
    const { version, gitHead } = JSON.parse(readFileSync(file, 'utf8')) as { version?: string; gitHead?: string }
    if (version !== undefined) return { version, commit: gitHead ?? 'unknown' }
  }
  return { version: '0.0.0', commit: 'unknown' }
}

/** What `--version` prints: `kas 0.1.0 (commit)`, and of a source tree `kas 0.1.0`. */
export function versionLine(program: 'kas' | 'agentk', { version, commit }: Version): string {
  return commit === 'unknown' ? `${program} ${version}` : `${program} ${version} (${commit})`
}

/**
 * `gitlab-kas/v0.1.0/unknown`, the form of upstream's Server and Via entries (doc/reference/tunnel-protocol.md 6.4).
 */
export function productName(program: 'gitlab-kas' | 'gitlab-agent', { version, commit }: Version): string {
  return `${program}/v${version}/${commit}`
}
