import type { Attack, Prepared, Round } from './attack.ts'
import type { AttackerAnswer, AttackerOrder } from './attacker.ts'
import { attacks } from './attacks.ts'

/** Plays attacks as its parent orders, one at a time, and ends with it. */

let round: Round | undefined
let prepared: Prepared<unknown> | undefined
process.on('disconnect', () => process.exit())
process.on('message', (order: AttackerOrder) => void obey(order))

async function obey(order: AttackerOrder): Promise<void> {
  const answer = await carryOut(order).catch((error: Error) => ({ failure: error.message }))
  if (process.connected) process.send?.(answer)
}

async function carryOut(order: AttackerOrder): Promise<AttackerAnswer> {
  if (order.kind === 'prepare') prepared = await attackOf(order).prepare?.(...argumentsOf(order))
  else if (order.kind === 'play') {
    round = await attackOf(order).play(...argumentsOf(order), prepared?.made)
    return { refusal: round.refusal, cpuMs: cpuMs() }
  } else if (order.kind === 'end') {
    await round?.end()
    round = undefined
  } else {
    await prepared?.clean()
    prepared = undefined
  }
  return { cpuMs: cpuMs() }
}

type Named = Extract<AttackerOrder, { name: string }>

function attackOf({ name }: Named): Attack<unknown, unknown> {
  const attack = attacks.find((one) => one.name === name)
  if (!attack) throw new Error(`no attack ${name}`)
  return attack
}

function argumentsOf(order: Named) {
  return [order.stage, attackOf(order)[order.size], AbortSignal.timeout(order.timeoutMs)] as const
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
