import type { Caller } from '../caller.ts'
import { configMaps } from '../ledger.ts'
import type { Scene, Stage } from '../stage.ts'

const mebibyte = 1_048_576
const logBytes = 16 * mebibyte
/** more lines than fit into so many bytes */
const tailLines = 400_000
const largeObjects = 16
const objectBytes = 900_000

export const large: Scene = {
  name: 'large',
  title: 'A large answer through a replica that does not hold the agent',
  async play(stage) {
    const { others } = await stage.holder()
    const [other] = others
    if (!other) throw new Error('there is one replica alone')
    const caller = stage.caller(other)
    if (stage.stack.cluster.kind === 'double') await log(stage, caller)
    else await objects(stage, caller)
  },
}

/** Reads the log of the double's pod, whose lines are numbered. */
async function log(stage: Stage, caller: Caller): Promise<void> {
  const query = `follow=true&tailLines=${tailLines}&limitBytes=${logBytes}`
  const { status, body, tookMs } = await caller.ask(`/api/v1/namespaces/demo/pods/clock/log?${query}`)
  const numbers = body
    .split('\n')
    .slice(0, -1)
    .map((line) => Number(/line (\d+) of/.exec(line)?.[1]))
  say(stage, caller, body.length, tookMs, `a log of ${numbers.length} lines`)
  stage.check(status === 200 && body.length === logBytes, `the log has its ${logBytes} bytes`)
  const inOrder = numbers.every((number, i) => i === 0 || number === (numbers[i - 1] as number) + 1)
  stage.check(inOrder, 'each line of the log comes once, in order')
}

/** Reads many objects, for an API server without pods. */
async function objects(stage: Stage, caller: Caller): Promise<void> {
  const label = { 'demo-scene': 'large' }
  for (let i = 0; i < largeObjects; i++) {
    const data = { text: String.fromCharCode(97 + i).repeat(objectBytes) }
    const body = { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: `large-${i}`, labels: label }, data }
    const { status } = await caller.ask(configMaps, { method: 'POST', body })
    stage.check(status === 201, `large ConfigMap ${i} is made`)
  }
  const { status, body, tookMs } = await caller.ask(`${configMaps}?labelSelector=demo-scene%3Dlarge`)
  say(stage, caller, body.length, tookMs, `a list of ${largeObjects} large ConfigMaps`)
  stage.check(status === 200, 'the list is answered with 200')
  const { items } = JSON.parse(body) as { items: { metadata: { name: string }; data: { text: string } }[] }
  const whole = items.filter(({ metadata, data }) => {
    const letter = String.fromCharCode(97 + Number(metadata.name.slice('large-'.length)))
    return data.text === letter.repeat(objectBytes)
  })
  stage.check(whole.length === largeObjects && items.length === largeObjects, 'each ConfigMap comes once, whole')
  for (const { metadata } of items) await caller.ask(`${configMaps}/${metadata.name}`, { method: 'DELETE' })
}

function say(stage: Stage, caller: Caller, bytes: number, tookMs: number, what: string): void {
  const rate = bytes / mebibyte / (tookMs / 1000)
  stage.say(
    `through ${caller.name}: ${what}, ${(bytes / mebibyte).toFixed(1)} MiB in ${Math.round(tookMs)} ms, ${rate.toFixed(0)} MiB/s`,
  )
}
