import assert from 'node:assert/strict'
import type { Test } from 'tap'
import { AgentkGo } from '../support/agentk-go.ts'
import { CuttingFront, type CuttingFrontOptions } from '../support/cutting-front.ts'
import { eventually } from '../support/eventually.ts'
import { RepeatedCalls } from '../support/repeated-calls.ts'
import { ResumedLines } from '../support/resumed-lines.ts'
import { bearerFor } from './front-client.ts'
import { FrontedReplicas, tokenOf } from './fronted-replicas.ts'

export interface AgentBehind {
  readonly agent: number
  readonly scheme: 'grpc' | 'ws'
  /** an agent that sends PINGs as stock agents do; default: ours */
  readonly isGo?: boolean
  /** no caller uses it */
  readonly isIdle?: boolean
}

export interface BehindOptions extends Omit<CuttingFrontOptions, 'targets'> {
  readonly agents: readonly AgentBehind[]
  /** pause of each caller between two calls; default 20 ms */
  readonly pauseMs?: number
}

/** calls of each agent in flight, so that calls run also while an agent's connection is cut */
const inFlight = 3
const kinds = ['GET, new connections', 'GET, kept connections'] as const
/** Limit of repeats of a call: on a busy machine a call may take longer than the front lets a connection live. */
const maxRepeats = 5

/**
 * Three replicas behind a front that cuts connections of agents and of callers. Callers make calls all the time, and
 * one watch of each agent has no events.
 */
export class BehindCuttingFront {
  readonly #replicas: FrontedReplicas
  readonly #forAgents: CuttingFront
  readonly #forCallers: CuttingFront
  readonly #callers: { agent: number; calls: RepeatedCalls; watch: ResumedLines }[] = []

  private constructor(replicas: FrontedReplicas, forAgents: CuttingFront, forCallers: CuttingFront) {
    this.#replicas = replicas
    this.#forAgents = forAgents
    this.#forCallers = forCallers
  }

  /** Resolves when the callers make calls. */
  static async start(t: Test, { agents, pauseMs, ...times }: BehindOptions): Promise<BehindCuttingFront> {
    const replicas = await FrontedReplicas.start(t)
    const front = async (targets: number[]) => await CuttingFront.start(t, { targets, ...times })
    const behind = new BehindCuttingFront(
      replicas,
      await front(replicas.all.map(({ agentsPort }) => agentsPort)),
      await front(replicas.all.map(({ relay }) => relay.port)),
    )
    await Promise.all(agents.map((agent) => behind.#startAgent(t, agent)))
    for (const { agent, isIdle } of agents) if (!isIdle) behind.#startCallers(t, agent, pauseMs)
    return behind
  }

  /** Resolves once the front has cut so many connections. */
  async cut(wanted: { ofAgents: number; ofCallers: number }): Promise<void> {
    await eventually(
      () => {
        assert.ok(this.#forAgents.cuts.length >= wanted.ofAgents, 'of agents')
        assert.ok(this.#forCallers.cuts.length >= wanted.ofCallers, 'of callers')
        for (const { watch } of this.#callers) assert.ok(watch.cut > 0, 'each watch')
      },
      { timeoutMs: 30_000 },
    )
  }

  /** Stops the callers and checks their results. @param agentsCut - true if the front must have cut agents by age */
  async check(t: Test, { agentsCut }: { agentsCut: boolean }): Promise<void> {
    t.comment(`connections of agents cut: ${said(this.#forAgents)}; of callers: ${said(this.#forCallers)}`)
    for (const { agent, calls, watch } of this.#callers) {
      const { failures, summary } = await calls.stop()
      t.same(failures, [], `no call to agent ${agent} is lost: ${summary}`)
      await eventually(() => {
        this.#replicas.cluster.emitEvent('late\n')
        assert.ok(watch.lines.includes('late'), 'the watch goes on')
      })
      t.same(watch.failures, [], `its watch was cut ${watch.cut} times, so that it could be seen, and began anew`)
      t.ok(watch.cut > 0, 'at least once')
    }
    t.equal(this.#forAgents.count({ why: 'idle' }), 0, 'no connection of an agent is idle')
    for (const how of ['FIN', 'RST'] as const) {
      t.equal(this.#forAgents.count({ why: 'age', how }) > 0, agentsCut, `old ones cut by ${how}`)
    }
  }

  async #startAgent(t: Test, { agent, scheme, isGo }: AgentBehind): Promise<void> {
    const kasAddress = `${scheme}://127.0.0.1:${this.#forAgents.port}`
    if (!isGo) {
      await this.#replicas.startAgentk(agent, kasAddress, { holders: 'some' })
      return
    }
    const flags = [`--api-server=${this.#replicas.cluster.url}`]
    await AgentkGo.start(t, { kasAddress, token: tokenOf(agent), flags })
    await this.#replicas.holders(agent, 'some')
  }

  #startCallers(t: Test, agent: number, pauseMs = 20): void {
    const front = this.#forCallers
    const url = `http://127.0.0.1:${front.port}`
    const authorization = bearerFor(agent)
    const isExcused = ({ port }: { port: number | undefined }) => front.hasCut(port)
    const calls = new RepeatedCalls({
      url: `${url}/slow`,
      authorization,
      kinds,
      inFlight,
      pauseMs,
      isExcused,
      maxRepeats,
    })
    calls.start(t)
    const lines = { url: `${url}/events`, authorization, isExcused: (port: number | undefined) => front.hasCut(port) }
    this.#callers.push({ agent, calls, watch: ResumedLines.start(t, lines) })
  }
}

const said = (front: CuttingFront) =>
  (['idle', 'age'] as const).map((why) => `${front.count({ why })} for ${why}`).join(' and ')
