import { abortable } from '../../../../lib/signals.ts'
import type { AdmittedUser, UserEndpoint } from '../../../own-endpoint.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import type { Admission } from './admission.ts'
import type { Endpoint } from './endpoint.ts'

export interface UserEndpointComponents {
  readonly admission: Pick<Admission, 'user'>
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
}

/** Creates an endpoint that serves a user's request about the user. */
export function userEndpoint(
  own: UserEndpoint,
  { admission, headers }: UserEndpointComponents,
  { ownAnswerTimeoutMs }: { readonly ownAnswerTimeoutMs: number },
): Endpoint<AdmittedUser> {
  const { path, methods } = own
  return {
    path,
    methods,
    admit: admission.user((token) => own.admit(token)),
    async serve({ answer }, { life }) {
      const { exchange } = life
      const { signal } = exchange
      const { status, mediaType, body } = await abortable(answer(signal), signal)
      const all = [...headers(life), ...contentHeaders(mediaType)]
      return (await exchange.answerInPieces(status, all, body, ownAnswerTimeoutMs)) ? 'endpoint' : 'cut'
    },
  }
}
