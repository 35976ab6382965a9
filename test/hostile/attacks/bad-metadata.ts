import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import { type Attack, over } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { type Answered, EvilUser, told } from '../stage.ts'

interface Size {
  readonly calls: number
}

const tunnels = 32
const atOnce = 16

const badMetadata: Record<string, string[]>[] = [
  { 'x-nul': ['a\0b'] },
  { 'x-line': ['a\r\nx-other: b'] },
  { 'x-end': ['a\n'] },
  { 'x name': ['a'] },
  { 'x\0name': ['a'] },
  { 'X-Upper': ['a'] },
  { '': ['a'] },
  { ':status': ['200'] },
  { connection: ['close'] },
  { 'transfer-encoding': ['chunked'] },
  { 'x-byte': ['\u0080\u00ff\u4e00'] },
  { 'x-bin': ['a\0b'] },
  { 'grpc-status-details-bin': ['\0', '\n'] },
]

const answers: ((tunnel: FakeTunnel, meta: Record<string, string[]>) => void)[] = [
  (tunnel, meta) => {
    tunnel.send(encodeConnectRequest.header(meta))
    tunnel.error(13, 'behind bad metadata')
  },
  (tunnel, meta) => {
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.send(encodeConnectRequest.trailer(meta))
    tunnel.error(13, 'behind bad trailers')
  },
  (tunnel) => tunnel.error(13, 'a text with a NUL \0, \r\n\r\n and a lone %zz'),
]

export const badMetadataAttack: Attack<Size> = {
  name: 'bad-metadata',
  what: 'names and values in an agent\u2019s metadata that HTTP/2 does not take',
  refusal: /^50\d /,
  cheap: { calls: 1300 },
  full: { calls: 2000 },
  async play(stage, { calls }, signal) {
    let served = 0
    const answer = (tunnel: FakeTunnel) => {
      const number = served++
      const meta = badMetadata[number % badMetadata.length] as Record<string, string[]>
      answers[Math.floor(number / badMetadata.length) % answers.length]?.(tunnel, meta)
      tunnel.stream.end()
    }
    const user = new EvilUser(stage, atOnce)
    const agents = [await EvilAgent.start(stage, { at: stage.holder, tunnels, answer })]
    let last: Answered = { status: 0, body: 'no call was answered' }
    let asked = 0
    const ask = async () => {
      while (asked++ < calls) last = await user.get(stage.entry, '/version', { signal })
    }
    try {
      await Promise.all(Array.from({ length: atOnce }, ask))
    } finally {
      for (const agent of agents) agent.close()
      user.close()
    }
    return over(told(last))
  },
}
