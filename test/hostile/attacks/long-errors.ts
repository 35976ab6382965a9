import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import { type Attack, over } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { type Answered, EvilUser, told } from '../stage.ts'

interface Size {
  readonly calls: number
  /** length of a text or a value. bytes */
  readonly bytes: number
}

const tunnels = 4

/** Answers in turn: each long text of an agent that kas passes on as HTTP/2 headers. */
function answers(bytes: number): ((tunnel: FakeTunnel) => void)[] {
  const long = 'x'.repeat(bytes)
  const many = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`x-${i}`, ['y'.repeat(bytes / 64)]]))
  const end = (tunnel: FakeTunnel) => tunnel.stream.end()
  return [
    (tunnel) => {
      tunnel.error(13, long)
      end(tunnel)
    },
    (tunnel) => {
      tunnel.send(encodeConnectRequest.header({ 'x-long': [long] }))
      tunnel.error(13, 'behind a long header')
      end(tunnel)
    },
    (tunnel) => {
      tunnel.send(encodeConnectRequest.header({}))
      tunnel.send(encodeConnectRequest.trailer({ 'x-long': [long] }))
      tunnel.error(13, 'behind a long trailer')
      end(tunnel)
    },
    (tunnel) => {
      tunnel.send(encodeConnectRequest.header(many))
      tunnel.send(encodeConnectRequest.trailer(many))
      tunnel.error(13, '\u00e9'.repeat(bytes / 2)) // three times as long when percent-encoded
      end(tunnel)
    },
  ]
}

export const longErrors: Attack<Size> = {
  name: 'long-errors',
  what: 'error texts and metadata of an agent that do not fit what passes between replicas',
  refusal: /^50\d /,
  cheap: { calls: 16, bytes: 100 * 1024 },
  full: { calls: 200, bytes: 100 * 1024 },
  async play(stage, { calls, bytes }, signal) {
    const kinds = answers(bytes)
    let served = 0
    const answer = (tunnel: FakeTunnel) => kinds[served++ % kinds.length]?.(tunnel)
    const user = new EvilUser(stage)
    const agents = [
      await EvilAgent.start(stage, { at: stage.holder, tunnels, answer }),
      await EvilAgent.start(stage, { at: stage.standby, tunnels, answer }),
    ]
    let last: Answered = { status: 0, body: 'no call was answered' }
    try {
      for (let i = 0; i < calls; i++) last = await user.get(stage.entry, '/version', { signal })
    } finally {
      for (const agent of agents) agent.close()
      user.close()
    }
    return over(told(last))
  },
}
