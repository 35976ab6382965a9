/**
 * What do callers see when the replica that holds their agent dies, or freezes? Three replicas run as processes behind
 * a balancer that drops those that refuse. Each round has a fresh agent.
 *
 * Options: `--rounds N` of each fault, `--busy N` of each with 16 busy connections at another replica.
 */
import { withoutGo } from '../test/support/agentk-go.ts'
import { startAgentk, startAgentkGo } from './failover/agents.ts'
import { Ground } from './failover/ground.ts'
import { reportWorst } from './failover/report.ts'
import { type Figures, freeze, frozenStock, kill, type SceneOptions } from './failover/scenes.ts'
import { addTo, type Row } from './support/figures.ts'
import { readCounts } from './support/options.ts'

const { rounds, busy } = readCounts({ rounds: 10, busy: 3 })

type Round = (ground: Ground, round: number) => Promise<Figures>

const ours = { kind: 'agentk', start: startAgentk, isBusy: false } as const
const go = { kind: 'stock', start: startAgentkGo, isBusy: false } as const
const played = (act: typeof kill, options: Omit<SceneOptions, 'name'>): Round => {
  return (ground, round) => act(ground, { ...options, name: `${act.name}-${options.kind}-${options.isBusy}-${round}` })
}

const scenes: { name: string; rounds: number; play: Round }[] = [
  { name: 'kill -9 of the holder, our agentk', rounds, play: played(kill, ours) },
  { name: 'SIGSTOP of the holder, our agentk', rounds, play: played(freeze, ours) },
  {
    name: 'kill -9, 16 busy connections at another replica',
    rounds: busy,
    play: played(kill, { ...ours, isBusy: true }),
  },
  {
    name: 'SIGSTOP, 16 busy connections at another replica',
    rounds: busy,
    play: played(freeze, { ...ours, isBusy: true }),
  },
  {
    name: 'kill -9 of the holder, an agent on grpc-go with stock back-off',
    rounds: withoutGo ? 0 : rounds,
    play: played(kill, go),
  },
  { name: 'SIGSTOP of the one replica that holds a stock-protocol agent', rounds, play: frozenStock },
]

const rows: Record<string, Row> = {}
const ground = await Ground.start()
try {
  for (const { name, rounds: count, play } of scenes) {
    const row: Row = {}
    for (let round = 0; round < count; round++) {
      const figures = await play(ground, round)
      addTo(row, figures)
      process.stderr.write(`${name}: round ${round + 1} of ${count}: ${shortly(figures)}\n`)
    }
    if (count > 0) rows[name] = row
    else process.stdout.write(`${name}: not played, ${withoutGo}\n`)
  }
} finally {
  await ground.stop()
}
reportWorst('failover', rows)

function shortly(figures: Figures): string {
  return Object.entries(figures)
    .map(([name, value]) => `${name} ${Math.round(value)}`)
    .join('; ')
}
