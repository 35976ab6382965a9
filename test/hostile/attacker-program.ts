import type { Round } from './attack.ts'
import type { AttackerAnswer, AttackerOrder } from './attacker.ts'
import { attacks } from './attacks.ts'

/** Plays attacks as its parent orders, one at a time, and ends with it. */

let round: Round | undefined
process.on('disconnect', () => process.exit())
process.on('message', (order: AttackerOrder) => void obey(order))

async function obey(order: AttackerOrder): Promise<void> {
  const answer = await carryOut(order).catch((error: Error) => ({ failure: error.message }))
  if (process.connected) process.send?.(answer)
}

async function carryOut(order: AttackerOrder): Promise<AttackerAnswer> {
  if (order.kind === 'end') {
    await round?.end()
    round = undefined
    return { cpuMs: cpuMs() }
  }
  const attack = attacks.find(({ name }) => name === order.name)
  if (!attack) throw new Error(`no attack ${order.name}`)
  round = await attack.play(order.stage, attack[order.size], AbortSignal.timeout(order.timeoutMs))
  return { refusal: round.refusal, cpuMs: cpuMs() }
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
