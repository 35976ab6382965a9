import { spawnSync } from 'node:child_process'

/** Returns true if the PATH has no such program. */
export const absent = (program: string): boolean => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0
