import { join, resolve } from 'node:path'
import { nodeFlags } from '../../dev/node-flags.ts'
import { type Programs, sourcePrograms } from '../../dev/start/local-programs.ts'

const project = resolve(import.meta.dirname, '../..')
/** of a whole run: a folder with both programs as they are shipped, which start in half of the CPU time */
const bundled = process.env.KAS_TEST_PROGRAMS

/** What `node` runs. Of the source tree, unless the run of the tests has bundled it. */
export function mainOf(program: 'kas' | 'agentk'): string {
  return bundled ? join(bundled, 'dist', program, 'main.js') : join(project, 'src', program, 'main.ts')
}

const commandOf = (program: 'kas' | 'agentk') => [process.execPath, ...nodeFlags, mainOf(program)]

/** For replicas and agents that run as `npm start` has them. */
export const testPrograms: Programs = { ...sourcePrograms, kas: commandOf('kas'), agentk: commandOf('agentk') }
