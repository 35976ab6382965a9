/**
 * How soon do the programs answer, how soon are they ready, and how much memory do they take at rest? The programs of
 * the source tree and those of the images run in turn, beside Node's own start.
 *
 * Options: `--rounds N`, `--settle N` seconds before memory is read.
 */
import { TemporaryInstallation } from '../dev/installed/temporary-installation.ts'
import { type Programs, sourcePrograms } from '../dev/start/local-programs.ts'
import { agent } from '../dev/start/settings.ts'
import { delay } from '../src/lib/signals.ts'
import { commandMs, nodeRssMiB } from './start/command.ts'
import { Ground, rssMiB } from './start/ground.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readCounts } from './support/options.ts'
import { median } from './support/programs.ts'

const { rounds, settle } = readCounts({ rounds: 5, settle: 30 })

const say = (text: string) => process.stderr.write(`${text}\n`)
const rows: Record<string, Row> = { source: {}, installed: {} }
const installation = new TemporaryInstallation({ onStep: say })
try {
  await installation.start()
  const turns = Object.entries({ source: sourcePrograms, installed: installation.programs })
  for (let round = 0; round <= rounds; round++) {
    for (const [name, programs] of round % 2 === 0 ? turns : turns.toReversed()) {
      const figures = await play(programs, round === 0 ? 0 : settle * 1000)
      say(`${round === 0 ? 'warm-up' : `round ${round} of ${rounds}`}, ${name}: ${shortly(figures)}`)
      if (round > 0) addTo(rows[name] ?? {}, figures)
    }
  }
} finally {
  await installation.stop()
}
report('start', rows)

/**
 * Runs commands one by one, three replicas one after another, and agentk; then three replicas at once, and reads
 * resident memory.
 */
async function play(programs: Programs, settleMs: number): Promise<Record<string, number>> {
  const ground = await Ground.create(programs)
  const time = (program: readonly string[], ...args: string[]) => commandMs([...program, ...args], programs.environment)
  try {
    const figures: Record<string, number> = {
      'node -e 0, ms': await time([process.execPath], '-e', '0'),
      'kas --help, ms': await time(programs.kas, '--help'),
      'agentk --version, ms': await time(programs.agentk, '--version'),
    }
    for (const [i, replica] of ground.replicas.entries()) {
      const { ms, cpuMs } = await ground.startReplica(replica)
      figures[`kas ready, replica ${i + 1} of 3, ms`] = ms
      figures[`kas ready, replica ${i + 1} of 3, CPU ms`] = cpuMs
    }
    const socket = ground.replicas[0]?.socket ?? ''
    const agentk = await ground.startAgentk()
    figures['agentk connected, ms'] = agentk.ms
    figures['agentk connected, CPU ms'] = agentk.cpuMs
    figures['kas status, ms'] = await time(programs.kas, 'status', '--socket', socket)
    figures['kas route, ms'] = await time(programs.kas, 'route', '--agent', String(agent.id), '--socket', socket)
    await ground.stopPrograms()
    const atOnce = await Promise.all(ground.replicas.map((replica) => ground.startReplica(replica)))
    figures['kas ready, three at once, the last, ms'] = Math.max(...atOnce.map(({ ms }) => ms))
    figures['node alone, RSS, MiB'] = await nodeRssMiB()
    await delay(settleMs)
    figures['kas without agents, RSS, MiB'] = median(ground.replicas.map(({ pid }) => rssMiB(pid)))
    await ground.startAgentk()
    await delay(settleMs)
    figures['agentk, RSS, MiB'] = rssMiB(ground.agentkPid)
    return figures
  } finally {
    await ground.stop()
  }
}

function shortly(figures: Readonly<Record<string, number>>): string {
  return Object.entries(figures)
    .map(([name, value]) => `${name} ${Math.round(value)}`)
    .join('; ')
}
