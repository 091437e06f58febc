// Package identity finds out who sends a request.
//
// # From a header
//
// A gateway authenticates the user and sets X-User-ID. The header is believed only if the connection comes from a
// trusted proxy. A second spelling of the name, such as X_User_ID, is refused: a proxy that removes one of them may let
// the other pass.
//
// # From a token
//
// The request carries a JSON Web Token as a bearer token, and nothing else is believed. A token is good if
//
//   - a key in use has signed it, by the one algorithm of that key
//   - it was issued by JWT_ISSUER for JWT_AUDIENCE, and its time has come and has not run out, within leeway
//   - no claim comes twice: other readers may take the other value
//   - JWT_USER_CLAIM is a user id, in canonical decimals; or, for the checkout of a shop, the scopes include redeem
//
// A token of a public key is remembered by its SHA-256 until it runs out, because its signature takes longer to check
// than a request takes otherwise. When the keys change, every remembered token is forgotten: a key that is gone ends
// its tokens at once.
//
// # Keys
//
// Keys come from a file, or from the JWKS server of an identity provider. They are read in the background: no request
// waits for them. A token of an unknown key is refused, and hastens the next reading. While the server is away, or
// sends nothing that can be used, the last keys stay in use. A member of a set that cannot be read is left out alone.
package identity
