import { type Found, problemFindings } from '../../../lib/doctor/findings.ts'
import { fingerprint } from '../../../lib/doctor/fingerprint.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import {
  readAccelRedirectSecret,
  readApiSecret,
  readPrivateApiSecret,
  readWebsocketTokenSecret,
} from '../../config/secret-file.ts'
import { OtlpToken } from '../../observability/otlp-token.ts'
import { type FileCheck, fileCheck, findingsOfFiles } from './file-check.ts'

/** Length below which a secret has no fingerprint, which would confirm a guess. bytes */
const minFingerprinted = 32

/** Checks each configured secret file, as kas reads it at its start. */
export async function checkSecrets(config: KasConfig): Promise<Found[]> {
  const all = await findingsOfFiles(secretChecks(config))
  return all.length > 0 ? all : [{ state: 'skipped', text: 'no file of a secret is named' }]
}

/** Checks of all configured secret files. */
export function secretChecks(config: KasConfig): FileCheck[] {
  const { gitlab, api, private_api, cluster, agent, directory, observability } = config
  const kubernetes = agent.kubernetes_api
  const readReplicas: Read = async (file, key) => (await readPrivateApiSecret(file, key)).secret
  const secrets: readonly (readonly [key: string, file: string | undefined, read: Read])[] = [
    [
      'gitlab.authentication_secret_file',
      // not read with a directory file, where it has no effect
      directory.file === undefined ? gitlab.authentication_secret_file : undefined,
      readApiSecret,
    ],
    ['api.listen.authentication_secret_file', api.listen.authentication_secret_file, readApiSecret],
    ['private_api.listen.authentication_secret_file', private_api.listen.authentication_secret_file, readReplicas],
    ['cluster.previous_authentication_secret_file', cluster.previous_authentication_secret_file, readReplicas],
    [
      'agent.kubernetes_api.websocket_token_secret_file',
      kubernetes?.websocket_token_secret_file,
      readWebsocketTokenSecret,
    ],
    [
      'agent.kubernetes_api.accel_redirect_secret_file',
      kubernetes?.accel_redirect_secret_file,
      readAccelRedirectSecret,
    ],
  ]
  return [
    ...secrets.flatMap(([key, file, read]) => fileCheck(key, file, (key, file) => checkSecret(key, file, read))),
    ...fileCheck(
      'observability.tracing.otlp_token_secret_file',
      observability.tracing?.otlp_token_secret_file,
      checkOtlpToken,
    ),
  ]
}

type Read = (file: string, key: string) => Promise<Uint8Array | string | undefined>

async function checkSecret(subject: string, file: string, read: Read): Promise<Found[]> {
  try {
    const secret = await read(file, subject)
    if (secret === undefined) {
      return [{ state: 'note', subject, text: `${file} is not there, so that what it is for is off` }]
    }
    if (secret.length < minFingerprinted) {
      const text = `${file} has ${secret.length} bytes: a fingerprint would give it away`
      return [{ state: 'note', subject, text, advice: `take ${minFingerprinted} bytes or more` }]
    }
    return [{ state: 'ok', subject, text: fingerprint(secret) }]
  } catch (error) {
    return problemFindings('secrets', error, adviceFor(subject))
  }
}

function adviceFor(key: string): string {
  const made = `head -c ${key.endsWith('.websocket_token_secret_file') ? 64 : 32} /dev/urandom | base64`
  return key.startsWith('gitlab.')
    ? `write the secret that GitLab has; ${made} makes a new one for both`
    : `compare with the fingerprint elsewhere; a new secret: ${made}`
}

/** Checks the token, without a fingerprint: it may be short, and is of another program. */
async function checkOtlpToken(subject: string, file: string): Promise<Found[]> {
  try {
    await OtlpToken.read(file)
    return [{ state: 'ok', subject, text: `${file} holds a token` }]
  } catch (error) {
    return problemFindings('secrets', error, 'write the token of the collector there, alone, as plain text')
  }
}
