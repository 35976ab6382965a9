import { hash } from 'node:crypto'
import { type Finding, problemFindings } from '../../../lib/findings.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import {
  readAccelRedirectSecret,
  readApiSecret,
  readPrivateApiSecret,
  readWebsocketTokenSecret,
} from '../../config/secret-file.ts'
import { OtlpToken } from '../../observability/otlp-token.ts'
import { type FileCheck, findingsOfFiles } from './file-check.ts'

const otlpKey = 'observability.tracing.otlp_token_secret_file'
const fingerprintLength = 12
/** Length below which a secret has no fingerprint, which would confirm a guess. bytes */
const minFingerprinted = 32

/** Checks each configured secret file, as kas reads it at its start. */
export async function checkSecrets(config: KasConfig): Promise<Finding[]> {
  const all = await findingsOfFiles(secretChecks(config))
  return all.length > 0 ? all : [{ check: 'secrets', state: 'skipped', text: 'no file of a secret is named' }]
}

/** Checks of all configured secret files. */
export function secretChecks(config: KasConfig): FileCheck[] {
  const { gitlab, api, private_api, cluster, agent, directory, observability } = config
  const kubernetes = agent.kubernetes_api
  const otlpToken = observability.tracing?.otlp_token_secret_file
  return [
    // not read with a directory file, where it has no effect
    ...(directory.file === undefined
      ? secretCheck('gitlab.authentication_secret_file', gitlab.authentication_secret_file, readApiSecret)
      : []),
    ...secretCheck('api.listen.authentication_secret_file', api.listen.authentication_secret_file, readApiSecret),
    ...secretCheck(
      'private_api.listen.authentication_secret_file',
      private_api.listen.authentication_secret_file,
      ofReplicas,
    ),
    ...secretCheck(
      'cluster.previous_authentication_secret_file',
      cluster.previous_authentication_secret_file,
      ofReplicas,
    ),
    ...secretCheck(
      'agent.kubernetes_api.websocket_token_secret_file',
      kubernetes?.websocket_token_secret_file,
      (file) => readWebsocketTokenSecret(file),
    ),
    ...secretCheck('agent.kubernetes_api.accel_redirect_secret_file', kubernetes?.accel_redirect_secret_file, (file) =>
      readAccelRedirectSecret(file),
    ),
    ...(otlpToken === undefined
      ? []
      : [{ key: otlpKey, files: [[otlpKey, otlpToken] as const], check: () => checkOtlpToken(otlpToken) }]),
  ]
}

function secretCheck(key: string, file: string | undefined, read: Read): FileCheck[] {
  return file === undefined ? [] : [{ key, files: [[key, file]], check: () => checked(key, file, read) }]
}

type Read = (file: string, key: string) => Promise<Uint8Array | string | undefined>

async function ofReplicas(file: string, key: string): Promise<Uint8Array> {
  return (await readPrivateApiSecret(file, key)).secret
}

async function checked(key: string, file: string, read: Read): Promise<Finding[]> {
  try {
    const secret = await read(file, key)
    if (secret === undefined) {
      return [
        { check: 'secrets', state: 'note', subject: key, text: `${file} is not there, so that what it is for is off` },
      ]
    }
    if (secret.length < minFingerprinted) {
      const text = `${file} has ${secret.length} bytes: a fingerprint would give it away`
      return [{ check: 'secrets', state: 'note', subject: key, text, advice: `take ${minFingerprinted} bytes or more` }]
    }
    return [{ check: 'secrets', state: 'ok', subject: key, text: fingerprint(secret) }]
  } catch (error) {
    const advice = adviceFor(key)
    return problemFindings('secrets', error).map((one) => ({ ...one, advice }))
  }
}

function adviceFor(key: string): string {
  const made = `head -c ${key.endsWith('.websocket_token_secret_file') ? 64 : 32} /dev/urandom | base64`
  return key.startsWith('gitlab.')
    ? `write the secret that GitLab has; ${made} makes a new one for both`
    : `compare with the fingerprint elsewhere; a new secret: ${made}`
}

/** Checks the token, without a fingerprint: it may be short, and is of another program. */
async function checkOtlpToken(file: string): Promise<Finding[]> {
  try {
    await OtlpToken.read(file)
    return [{ check: 'secrets', state: 'ok', subject: otlpKey, text: `${file} holds a token` }]
  } catch (error) {
    const advice = 'write the token of the collector there, alone, as plain text'
    return problemFindings('secrets', error).map((one) => ({ ...one, advice }))
  }
}

/** Returns a text that is equal for equal secrets, and reveals nothing else. */
function fingerprint(secret: Uint8Array | string): string {
  return `sha256 of it begins with ${hash('sha256', secret, 'hex').slice(0, fingerprintLength)}`
}
