//! Enums with named values.

/// Makes an enum with named values: `ALL`, `name`, `from_name`, and `Display`, which writes the
/// name. Derives beyond `Clone`, `Copy`, `Debug`, `PartialEq`, `Eq` and `Hash` are given as
/// attributes.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All values, in this order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in files, in JSON, on the command line and in logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
