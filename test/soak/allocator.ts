import { spawnSync } from 'node:child_process'
import { allocatorEnvironment } from '../../dev/node-flags.ts'

/**
 * Returns the beginning of a command that allocates as replicas in their image do; undefined: this machine lacks the
 * library.
 */
export function allocatorCommand(): string[] | undefined {
  const { stderr, status } = spawnSync('/bin/true', { env: allocatorEnvironment, encoding: 'utf8' })
  if (status !== 0 || stderr !== '') return undefined
  return ['/usr/bin/env', ...Object.entries(allocatorEnvironment).map((entry) => entry.join('='))]
}
