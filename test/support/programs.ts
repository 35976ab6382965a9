import { join, resolve } from 'node:path'
import { nodeFlags } from '../../dev/node-flags.ts'
import { type Programs, sourcePrograms } from '../../dev/start/local-programs.ts'

const project = resolve(import.meta.dirname, '../..')
/** folder of a whole run with both programs as they are shipped, which start in half of the CPU time */
const bundled = process.env.KAS_TEST_PROGRAMS

/** Returns the script for `node`: of the source tree, unless the run of the tests has bundled it. */
export function mainOf(program: 'kas' | 'agentk'): string {
  return bundled ? join(bundled, 'dist', program, 'main.js') : join(project, 'src', program, 'main.ts')
}

const commandOf = (program: 'kas' | 'agentk') => [process.execPath, ...nodeFlags, mainOf(program)]

/** Programs for replicas and agents that run as in `npm start`. */
export const testPrograms: Programs = { ...sourcePrograms, kas: commandOf('kas'), agentk: commandOf('agentk') }
