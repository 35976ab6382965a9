import { machineTime } from '../support/machine-time.ts'
import { percentile } from '../support/percentile.ts'
import { cpuSeconds } from '../support/programs.ts'
import { SteadyGets } from '../views/steady-gets.ts'
import { agentkUser, type Ground } from './ground.ts'
import { ObjectSet } from './objects.ts'
import { SeenObjects } from './seen-objects.ts'

/** Limit of a push while the API server is busy. ms */
const pushTimeoutMs = 120_000

/** Another source with a push after the other, renewals of the Lease, and a caller who sends a GET each 10 ms. */
export class OthersAtWork {
  readonly objects = new ObjectSet('other', 100)
  readonly #ground: Ground
  readonly #seen: SeenObjects
  #version = 0

  constructor(ground: Ground) {
    this.#ground = ground
    this.#seen = new SeenObjects(ground.controlPlane.admin, 'other')
  }

  start(): void {
    this.#seen.start()
  }

  stop(): void {
    this.#seen.stop()
  }

  /** Measures them for some seconds, with the CPU of both programs. */
  async measure(seconds: number): Promise<Record<string, number>> {
    const { log, agentkPid, kasPid, target } = this.#ground
    const [from, begun] = [log.end, machineTime()]
    const cpu = { agentk: cpuSeconds(agentkPid), kas: cpuSeconds(kasPid) }
    const gets = new SteadyGets(target('/api/v1/namespaces/other-0/configmaps/app-000-0'))
    const rounds: number[] = []
    while (machineTime() < begun + seconds * 1000) rounds.push(await this.#push())
    const ended = machineTime()
    await gets.stop()
    const calls = gets.percentiles(begun, ended)
    const { took, between } = log.renewals(from, agentkUser)
    const measured = (ended - begun) / 1000
    return {
      'another source, push to applied: p50, ms': percentile(rounds, 0.5),
      'another source, push to applied: p99, ms': percentile(rounds, 0.99),
      'renewal of the Lease, at the API server: p50, ms': percentile(took, 0.5),
      'renewal of the Lease, at the API server: p99, ms': percentile(took, 0.99),
      'time between two renewals: p50, ms': percentile(between, 0.5),
      'time between two renewals: p99, ms': percentile(between, 0.99),
      'GET through the tunnel: p50, ms': calls.p50,
      'GET through the tunnel: p99, ms': calls.p99,
      'CPU of agentk, of a core': (cpuSeconds(agentkPid) - cpu.agentk) / measured,
      'CPU of kas, of a core': (cpuSeconds(kasPid) - cpu.kas) / measured,
    }
  }

  /** @returns ms from the push until its object is in the cluster */
  async #push(): Promise<number> {
    const { pushes } = this.#ground
    const version = String(++this.#version)
    await pushes.commit(this.objects.file(0, version))
    const begun = machineTime()
    await this.#ground.tell()
    return (await this.#seen.version(version, 1, AbortSignal.timeout(pushTimeoutMs))) - begun
  }
}
