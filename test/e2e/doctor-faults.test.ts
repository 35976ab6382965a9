import t from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { absent } from '../support/absent.ts'
import { type DoctorAnswer, type Installation, type Settings, startInstallation } from '../support/doctor-ground.ts'
import { eventually } from '../support/eventually.ts'
import { shiftedClock } from '../support/faketime.ts'
import { GitlabDouble } from '../support/gitlab/gitlab-double.ts'

/**
 * The doctors on an installation of real parts: two replicas behind nginx, an API server, GitLab over TLS. First it is
 * sound, then it has each fault of the first hour in turn.
 */

t.setTimeout(500_000)

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = [...missingAssets(assets, 'api'), ...['nginx', 'git'].filter(absent)]
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

/** limit of a run without faults. ms */
const soundMs = 10_000
/** longer than the idle limits of the fronts */
const idleSeconds = '66'

interface Fault {
  readonly check: string
  readonly says: RegExp
  readonly advises: RegExp
  /** programs that the machine lacks for it; undefined or false: none */
  readonly skip?: string | false
  ask(installation: Installation): Promise<DoctorAnswer>
}

const gitlabOf = (change: Record<string, unknown>): Fault['ask'] => {
  return ({ kasDoctor }) => kasDoctor((settings) => Object.assign(settings.gitlab ?? {}, change))
}
const pairOf = (files: (installation: Installation) => Promise<Record<string, string>>): Fault['ask'] => {
  return async (installation) => {
    const named = await files(installation)
    return installation.kasDoctor(({ agent }) => Object.assign((agent as unknown as Listens).listen, named))
  }
}
const frontOf = (path: string, more: readonly string[] = []): Fault['ask'] => {
  return ({ kasDoctor, front }) =>
    kasDoctor(undefined, { args: [`--kubernetes-api-url=https://127.0.0.1:${front.port}${path}`, ...more] })
}
interface Listens {
  readonly listen: Record<string, unknown>
}

const clock = skip ? skip : await shiftedClock(60)
const shifted: Readonly<Record<string, string>> = typeof clock === 'string' ? {} : clock
const other = await Authority.create('another root')
const names = { dns: ['localhost'], ip: ['127.0.0.1'] }

const faults: Readonly<Record<string, Fault>> = {
  'a port that is taken': {
    check: 'listen',
    says: /port \d+ is taken/,
    advises: /end who listens there/,
    ask: ({ kasDoctor }) => kasDoctor(undefined, { args: ['--pre'] }),
  },
  'an address of another machine': {
    check: 'listen',
    says: /192\.0\.2\.1 is no address of this machine/,
    advises: /name one that it has/,
    ask: ({ kasDoctor }) =>
      kasDoctor(
        ({ private_api }) => Object.assign((private_api as unknown as Listens).listen, { address: '192.0.2.1:8155' }),
        {
          args: ['--pre'],
        },
      ),
  },
  'a socket in a folder that is not there': {
    check: 'listen',
    says: /the folder of \/does\/not\/exist\/ops does not exist/,
    advises: /make it/,
    ask: ({ kasDoctor }) =>
      kasDoctor((settings) => Object.assign(settings, { ops: { socket: '/does/not/exist/ops' } }), { args: ['--pre'] }),
  },
  'the key of another certificate': {
    check: 'certificates',
    says: /it is the key of another certificate/,
    advises: /name the pair/,
    ask: pairOf(async ({ write }) => {
      const [one, another] = await Promise.all([other.issueServing(names), other.issueServing(names)])
      return {
        certificate_file: await write('one.crt', one.certificate),
        key_file: await write('another.key', another.key),
      }
    }),
  },
  'a certificate that has ended': {
    check: 'certificates',
    says: /has ended at/,
    advises: /renew it/,
    ask: pairOf(async ({ write }) => {
      const ended = await Authority.create('ended', { lifeMs: -60_000 })
      const { certificate, key } = await ended.issueServing(names)
      return { certificate_file: await write('ended.crt', certificate), key_file: await write('ended.key', key) }
    }),
  },
  'a secret of another length': {
    check: 'secrets',
    says: /found 31 bytes, allowed: exactly 32 bytes/,
    advises: /write the secret that GitLab has/,
    ask: async (installation) => {
      const file = await installation.write('short', Buffer.alloc(31, 7).toString('base64'))
      return gitlabOf({ authentication_secret_file: file })(installation)
    },
  },
  'a secret that is encoded twice': {
    check: 'secrets',
    says: /it is encoded twice/,
    advises: /write the secret that GitLab has/,
    ask: async (installation) => {
      const file = await installation.write('twice', btoa(Buffer.alloc(32, 7).toString('base64')))
      return gitlabOf({ authentication_secret_file: file })(installation)
    },
  },
  'another secret than GitLab has': {
    check: 'gitlab',
    says: /GitLab refuses kas itself/,
    advises: /compare gitlab\.authentication_secret_file/,
    ask: async (installation) => {
      const file = await installation.write('other-secret', Buffer.alloc(32, 9).toString('base64'))
      return gitlabOf({ authentication_secret_file: file })(installation)
    },
  },
  'a clock that is off by a minute': {
    check: 'clocks',
    says: /GitLab's clock is (59|60|61) s behind this one/,
    advises: /time server/,
    skip: typeof clock === 'string' && clock,
    ask: ({ kasDoctor }) => kasDoctor(undefined, { env: shifted, isProgram: true }),
  },
  'no authority of GitLab': {
    check: 'gitlab',
    says: /https:/,
    advises: /set gitlab\.ca_certificate_file/,
    ask: gitlabOf({ ca_certificate_file: undefined }),
  },
  'no authority of Gitaly': {
    check: 'gitaly',
    says: /tls:\/\/localhost/,
    advises: /put the certificate of its authority into gitlab\.ca_certificate_file/,
    ask: async ({ gitlab, kasDoctor, write }) => {
      const plain = new GitlabDouble({ world: gitlab.world })
      await plain.come()
      const file = await write('plain-secret', plain.secret.toString('base64'))
      const change = { address: plain.address, authentication_secret_file: file, ca_certificate_file: undefined }
      return await kasDoctor((settings) => Object.assign(settings.gitlab ?? {}, change)).finally(() => plain.leave())
    },
  },
  'http for https': {
    check: 'gitlab',
    says: /http:/,
    advises: /does GitLab speak https where gitlab\.address says http/,
    ask: (installation) => gitlabOf({ address: installation.gitlab.address.replace('https', 'http') })(installation),
  },
  'a page of something else': {
    check: 'gitlab',
    says: /127\.0\.0\.1/,
    advises: /GitLab/,
    ask: (installation) => gitlabOf({ address: `https://127.0.0.1:${installation.front.port}` })(installation),
  },
  'nobody at the address of GitLab': {
    check: 'gitlab',
    says: /ECONNREFUSED/,
    advises: /nothing listens at gitlab\.address/,
    ask: gitlabOf({ address: 'https://127.0.0.1:1' }),
  },
  'a proxy that is not there': {
    check: 'proxies',
    says: /127\.0\.0\.1:1: .*ECONNREFUSED/,
    advises: /does it run/,
    ask: ({ kasDoctor }) => {
      const env = { HTTPS_PROXY: 'http://ada:good-password@127.0.0.1:1' }
      return kasDoctor(undefined, { env, isProgram: true })
    },
  },
  'a configuration that kas does not know': {
    check: 'configuration',
    says: /found nothing, allowed: a value/,
    advises: /kas check-config/,
    ask: ({ kasDoctor }) =>
      kasDoctor(({ gitlab = {} }) => {
        gitlab.adress = gitlab.address
        delete gitlab.address
      }),
  },
  'no authority of kas': {
    check: 'kas',
    says: /127\.0\.0\.1/,
    advises: /--kas-ca-cert-file/,
    ask: ({ agentkDoctor }) => agentkDoctor((flags) => delete flags['kas-ca-cert-file']),
  },
  'no authority of the API server': {
    check: 'cluster',
    says: /127\.0\.0\.1/,
    advises: /--certificate-authority|authority/,
    ask: ({ agentkDoctor }) => agentkDoctor((flags) => delete flags['certificate-authority']),
  },
  'a path without its slash': {
    check: 'kas',
    says: /answered 301 instead of a WebSocket upgrade/,
    advises: /the slash at its end/,
    ask: ({ agentkDoctor }) =>
      agentkDoctor((flags) => {
        flags['kas-address'] = flags['kas-address']?.replace(/\/$/, '') ?? ''
      }),
  },
  'a path that is none of kas': {
    check: 'kas',
    says: /answered 404 instead of a WebSocket upgrade/,
    advises: /with GitLab the path is \/-\/kubernetes-agent\//,
    ask: ({ agentkDoctor, front }) =>
      agentkDoctor((flags) => {
        flags['kas-address'] = `wss://127.0.0.1:${front.port}/kas/`
      }),
  },
  'a token that nobody has': {
    check: 'kas',
    says: /unauthenticated/,
    advises: /kas does not take this token/,
    ask: async ({ agentkDoctor, write }) => {
      const file = await write('other-token', 'of-nobody')
      return agentkDoctor((flags) => {
        flags['token-file'] = file
      })
    },
  },
  'an nginx that is made for pages: no Upgrade': {
    check: 'front',
    says: /an Upgrade to a WebSocket is answered with status 200/,
    advises: /proxy_http_version 1\.1 and proxy_set_header Upgrade/,
    ask: frontOf('/by-default'),
  },
  'an nginx that is made for pages: no long bodies': {
    check: 'front',
    says: /a body of 1\.5 MiB does not come to kas: status 413/,
    advises: /client_max_body_size/,
    ask: frontOf('/by-default'),
  },
  'an nginx that cuts streams of kubectl': {
    check: 'idle',
    says: /an idle stream was cut after [123] s/,
    advises: /proxy_read_timeout/,
    ask: frontOf('/brief', ['--idle', '5']),
  },
  'a path of kubectl that is none of kas': {
    check: 'front',
    says: /what answers is not kas: status 404/,
    advises: /does the front lead \/k8s to port 8154/,
    ask: frontOf('/k8s'),
  },
  'no authority of what is in front of kas': {
    check: 'front',
    says: /127\.0\.0\.1/,
    advises: /give --kubernetes-api-ca-file/,
    ask: async (installation) => {
      const file = await installation.write('other-ca.crt', other.certificate)
      return installation.kasDoctor(undefined, { args: [`--kubernetes-api-ca-file=${file}`] })
    },
  },
  '8155 that is closed': {
    check: 'replicas',
    says: /calls do not reach kas-2 at 127\.0\.0\.1:1 /,
    advises: /open 8155 between the two/,
    ask: async (installation) => {
      const env = { OWN_PRIVATE_API_URL: 'grpc://127.0.0.1:1' }
      const { stop } = await installation.startReplica('kas-2', { env })
      return await untilNamed(() => installation.kasDoctor(), /calls do not reach kas-2/).finally(stop)
    },
  },
  '8156 that is closed': {
    check: 'replicas',
    says: /no replica with its secret answers at 127\.0\.0\.1:\d+, which discovery lists: connection refused/,
    advises: /is 8156 open to it/,
    ask: async (installation) => {
      const change = ({ cluster = {} }: Settings) => {
        cluster.discovery = { static: ['127.0.0.1:1'] }
      }
      const { doctor, stop } = await installation.startReplica('kas-3', { change })
      return await untilNamed(doctor, /no replica with its secret answers/).finally(stop)
    },
  },
  'another secret of replicas': {
    check: 'replicas',
    says: /no replica with its secret answers at 127\.0\.0\.1:\d+/,
    advises: /compare private_api\.listen\.authentication_secret_file at both/,
    ask: async (installation) => {
      const file = await installation.write('other-replicas', Buffer.alloc(32, 5).toString('base64'))
      const change = ({ private_api }: Settings) => {
        Object.assign((private_api as unknown as Listens).listen, { authentication_secret_file: file })
      }
      const { doctor, stop } = await installation.startReplica('kas-4', { change })
      return await untilNamed(doctor, /no replica with its secret answers/).finally(stop)
    },
  },
  'a front that cuts at 60 s': {
    check: 'idle',
    // the count begins with the stream's first answer, which comes after the connection that is cut
    says: /an idle stream was (cut|ended) after (5[4-9]|6[01]) s/,
    advises: /the idle timeout of a load balancer/,
    ask: ({ agentkDoctor, cutting }) =>
      agentkDoctor(addressed(`wss://127.0.0.1:${cutting.port}/-/kubernetes-agent/`), idle),
  },
  'an nginx that cuts streams between two PINGs of kas': {
    check: 'idle',
    says: /an idle stream was (cut|ended) after (29|30|31) s/,
    advises: /grpc_read_timeout of nginx/,
    ask: ({ agentkDoctor, front }) => agentkDoctor(addressed(`grpcs://127.0.0.1:${front.grpcPort}`), idle),
  },
}

const idle = { args: ['--idle', idleSeconds] }
const addressed = (address: string) => (flags: Record<string, string>) => {
  flags['kas-address'] = address
}

/**
 * Asks until the fault is named. Replicas learn of one another a moment after their start, and text and JSON come from
 * two runs; both must name it.
 */
function untilNamed(ask: () => Promise<DoctorAnswer>, says: RegExp): Promise<DoctorAnswer> {
  return eventually(
    async () => {
      const answer = await ask()
      const isNamed = answer.findings.some(({ state, text }) => state === 'failed' && says.test(text))
      if (!isNamed || answer.code !== 1) throw new Error(answer.stdout)
      return answer
    },
    { timeoutMs: 60_000 },
  )
}

t.test('an installation', { skip }, async (t) => {
  const installation = await startInstallation(t, assets)
  const { kasDoctor, agentkDoctor, secrets } = installation
  const hasNoSecret = ({ stdout }: DoctorAnswer) => {
    for (const secret of [...secrets, 'good-password']) t.notOk(stdout.includes(secret), stdout)
  }
  const entries = Object.entries(faults)
  const ofFronts = entries.filter(([name, { check }]) => check === 'idle' && !name.includes('kubectl'))
  const cut = new Map(ofFronts.map(([name, { ask }]) => [name, ask(installation)])) // a minute, beside the others

  await t.test('is sound: nothing is complained of, in ten seconds', async (t) => {
    for (const ask of [kasDoctor, agentkDoctor]) {
      const answer = await ask(undefined, { isProgram: true })
      t.equal(answer.code, 0, answer.stdout)
      t.strictSame(
        // agentk's account is an administrator here
        answer.findings.filter(
          ({ state, subject = '' }) =>
            (state === 'failed' || state === 'note') && !subject.startsWith('beyond the lists: '),
        ),
        [],
      )
      t.ok(answer.ms < soundMs, `${answer.ms} ms`)
      t.notMatch(answer.stdout, /FAILED/)
      hasNoSecret(answer)
    }
  })

  for (const [name, { check, says, advises, skip = false, ask }] of entries) {
    await t.test(`named: ${name}`, { skip }, async (t) => {
      const answer = await (cut.get(name) ?? ask(installation))
      t.equal(answer.code, 1, answer.stdout)
      const found = answer.findings.filter((one) => one.check === check && one.state === 'failed')
      t.ok(
        found.some(({ text, advice = '' }) => says.test(text) && advises.test(advice)),
        answer.stdout,
      )
      hasNoSecret(answer)
    })
  }
})
